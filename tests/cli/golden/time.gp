# gnuplot 5.4 or later
reset
set encoding utf8
set terminal pdfcairo size 14in,7.6in font 'DejaVu Sans,13' background '#ffffff' noenhanced
set output 'out.pdf'
set border 3 linecolor '#666666' linewidth 1
set tics nomirror out scale 0.5 textcolor '#222222'
set grid y linecolor '#DDDDDD' linewidth 1 linetype 1
set style fill solid 1.0 noborder
set label 1 'Time: custom bf16, 2,048 tokens, causal mask, train, cp 2, ring, contiguous, on toy' at screen 0.02,0.952632 left font ',17' textcolor '#222222'
set label 2 'Step 86.42 us; on its critical rank 1: compute 74.94 us, exposed communication 11.49 us (13.3%), idle 0.000 ms' at screen 0.02,0.907895 left font ',13' textcolor '#666666'
set key at screen 0.02,0.884211 left top horizontal maxcols 8 Left reverse samplen 1.5 textcolor '#222222'
set lmargin at screen 0.075
set rmargin at screen 0.98
set tmargin at screen 0.815789
set bmargin at screen 0.1
set errorbars 0
set xrange [-3.5:4.5]
set yrange [0:91.6075785]
set xlabel 'rank'
set ylabel 'time in the step (us)'
set border 1
set tics scale 0
set ytics 0,20
set format y '%.0f'
set xtics 0,1,1
$part0 << EOD
0 0 18.808832
1 0 56.3897958
EOD
$part1 << EOD
0 18.808832 23.01952
1 56.3897958 74.9364838
EOD
$part2 << EOD
0 23.01952 46.859968
1 74.9364838 86.4222438
EOD
$part3 << EOD
0 46.859968 86.4222438
1 86.4222438 86.4222438
EOD
$mark << EOD
0 35.45728
1 35.45728
EOD
plot NaN notitle, \
    $part0 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#0072B2' title 'attention', \
    $part1 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#56B4E9' title 'merge and other kernels', \
    $part2 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#D55E00' title 'exposed communication', \
    $part3 using 1:2:($1-0.38):($1+0.38):2:3 with boxxyerror fillcolor '#DDDDDD' title 'idle', \
    $mark using 1:2:($1-0.38):($1+0.38) with xerrorbars pointtype -1 linewidth 2.5 linecolor '#222222' title 'transfers under way'
unset output
