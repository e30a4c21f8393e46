# gnuplot 5.4 or later
reset
set encoding utf8
set terminal dumb size 80,16 noenhanced mono
set output
$panel0 << EOD
0 4 4 +0.0%
1 7 8 -12.5%
EOD
$panel1 << EOD
0 7 6 +16.7%
1 12 12 +0.0%
EOD
$panel2 << EOD
0 1 2 -50.0%
1 6 0 -
EOD
unset key
set tics nomirror out scale 0
set border 3
set xrange [-0.6:1.6]
set xtics ('pair 1' 0, 'pair 2' 1) nomirror scale 0
set xlabel '  * predicted  # measured'
set title 'Forward (ms)'
set ytics 0,2
set format y '%.0f'
set yrange [0:9.2]
plot $panel0 using ($1-0.2):2:(0.36) with boxes linetype 1 notitle, $panel0 using ($1+0.2):3:(0.36) with boxes linetype 2 notitle
set title 'Backward (ms)'
set ytics 0,5
set format y '%.0f'
set yrange [0:13.8]
plot $panel1 using ($1-0.2):2:(0.36) with boxes linetype 1 notitle, $panel1 using ($1+0.2):3:(0.36) with boxes linetype 2 notitle
set title 'Exposed communication (ms)'
set ytics 0,2
set format y '%.0f'
set yrange [0:6.9]
plot $panel2 using ($1-0.2):2:(0.36) with boxes linetype 1 notitle, $panel2 using ($1+0.2):3:(0.36) with boxes linetype 2 notitle
unset output
