# gnuplot 5.4 or later
reset
set encoding utf8
set terminal svg dynamic size 1400,760 font 'DejaVu Sans,15' background '#ffffff' noenhanced
set output 'out.svg'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
set label 1 'Memory: custom bf16, 2,048 tokens, causal mask, train, cp 2, ring, contiguous, on toy' at screen 0.02,0.952632 left font ',17' textcolor '#222222'
set label 2 'High-water mark of attention: 7.531 MiB on rank 1, 0.0% of the device''s 93.13 GiB (toy): fits' at screen 0.02,0.907895 left font ',13' textcolor '#666666'
set key at screen 0.02,0.884211 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set lmargin at screen 0.075
set rmargin at screen 0.98
set tmargin at screen 0.815789
set bmargin at screen 0.1
set errorbars 0
set xrange [-3.5:4.5]
set yrange [0:7.983125]
set xlabel 'rank'
set ylabel 'memory at the high-water mark (MiB)'
set border 1
set tics scale 0
set ytics 0,1
set format y '%.0f'
set xtics 0,1,1
$part0 << EOD
0 0 3.015625
1 0 3.015625
EOD
$part1 << EOD
0 3.015625 3.515625
1 3.015625 3.515625
EOD
$part2 << EOD
0 3.515625 5.515625
1 3.515625 6.515625
EOD
$part3 << EOD
0 5.515625 5.515625
1 6.515625 7.53125
EOD
plot NaN notitle, \
    $part0 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#0072B2' title 'resident: own Q, K, V, O, gradients', \
    $part1 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#009E73' title 'received K, V', \
    $part2 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#E69F00' title 'accumulators', \
    $part3 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#CC79A7' title 'workspace'
unset output
